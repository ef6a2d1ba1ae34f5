"""Downloads: jobs, their queue, and the process that fetches and checks files."""
