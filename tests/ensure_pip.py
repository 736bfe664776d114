# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Replaces the pip bootstrap of ansible-test where its download is out of reach: ensurepip, then the desired pip."""

from __future__ import annotations

import os
import subprocess
import sys

environment = {key: value for key, value in os.environ.items() if key != "GET_PIP"}
subprocess.run([sys.executable, "-m", "ensurepip", "--default-pip"], check=True, env=environment)
desired = [name for name in sys.argv[1:] if name not in ("--no-setuptools", "--no-wheel")]
subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", *desired], check=True, env=environment)
