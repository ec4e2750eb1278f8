"""Everything that asks a language model, and the rules that do the same jobs without one."""
