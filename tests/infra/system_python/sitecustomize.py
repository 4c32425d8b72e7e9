"""Do for the system's Python what a .pth file of the environment does for its own (infra/install.sh)."""

import torchvision_operators  # noqa: F401 - it lets torchvision be imported
