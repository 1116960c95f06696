"""The way of a file, one step a module; each acts only through the edges it is handed."""
