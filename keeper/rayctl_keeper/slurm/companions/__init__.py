"""Jobs for further nodes, which the keeper asks for."""
