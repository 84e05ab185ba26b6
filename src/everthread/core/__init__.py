"""The pure heart: values and folds over them. No I/O, no clock, no provider."""
