"""The page at `/`: a question asked of several methods side by side, and judgements of what they found."""
