"""The models of this project: a folder with `model.toml` and `model.safetensors`."""
