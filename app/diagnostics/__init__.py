"""The log, crash reports and safe mode. Nothing is sent anywhere."""
