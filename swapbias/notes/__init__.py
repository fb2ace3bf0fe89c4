"""Clinical notes: rows, local folders, regimes and counterfactual pairs."""
