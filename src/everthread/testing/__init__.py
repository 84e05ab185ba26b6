"""What the tests of an application need: a scripted model that replies what it is told to, offline."""
