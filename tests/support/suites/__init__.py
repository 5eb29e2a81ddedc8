"""What the tests of a folder share with those of others, by folder: programs, how they are traced, fixtures. The conftest.py of a
folder names the fixtures that its tests have. No file here is a script, so names like those of Python's modules are no harm."""
