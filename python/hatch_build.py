"""Builds the programs for a wheel. RLX_WHEEL names the system, such as linux/arm64; by default it is this one.

The programs are static, so a wheel for Linux runs with every C library; manylinux_2_17 is the oldest tag that all
versions of pip know for both processors.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

TAGS = {
    "linux/amd64": "manylinux_2_17_x86_64.manylinux2014_x86_64",
    "linux/arm64": "manylinux_2_17_aarch64.manylinux2014_aarch64",
    "darwin/arm64": "macosx_11_0_arm64",
}
PROGRAMS = {"rlxc": "./cmd/rlxc", "rlxrun": "./cmd/rlxrun", "rlx-backend-cpu": "./plugins/cpu"}


class CustomBuildHook(BuildHookInterface):
    def initialize(self, version, build_data):
        if self.target_name != "wheel" or version == "editable":
            return
        root = Path(self.root).parent
        system = os.environ.get("RLX_WHEEL") or "/".join(
            subprocess.check_output(["go", "env", "GOOS", "GOARCH"], text=True, cwd=root).split())
        if system not in TAGS:
            raise ValueError(f"RLX_WHEEL: no wheels for {system}; there are some for {', '.join(TAGS)}")
        self.folder = tempfile.mkdtemp(prefix="rlx-wheel")
        goos, goarch = system.split("/")
        environment = {**os.environ, "GOOS": goos, "GOARCH": goarch, "CGO_ENABLED": "0"}
        flags = (os.environ.get("RLX_LDFLAGS", "") + " -s -w").strip()
        for name, package in PROGRAMS.items():
            path = os.path.join(self.folder, name)
            subprocess.check_call(["go", "build", "-trimpath", f"-ldflags={flags}", "-o", path, package], cwd=root,
                                  env=environment)
            build_data["force_include"][path] = f"rlx/bin/{name}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{TAGS[system]}"

    def finalize(self, version, build_data, artifact_path):
        if folder := getattr(self, "folder", None):
            shutil.rmtree(folder)
