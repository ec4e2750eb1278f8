"""The methods that others are measured against."""
