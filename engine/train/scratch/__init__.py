"""A model from nothing: recipe -> corpus -> training -> folder. The bundled one is made so."""
