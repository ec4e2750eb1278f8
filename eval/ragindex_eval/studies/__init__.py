"""Studies: published tables as settings of a comparison, what their runs need, and rehearsals by rules."""
