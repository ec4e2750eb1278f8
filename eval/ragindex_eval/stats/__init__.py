"""Statistics: confidence intervals, paired tests, spread over seeds, and conclusions in sentences."""
