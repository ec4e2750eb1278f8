"""`ragindex recommend`: a method that is good enough under the constraints, found with few questions."""
