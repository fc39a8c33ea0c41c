"""Pure rules about text: its words, windows, passages and tokens. Both stores share them."""
