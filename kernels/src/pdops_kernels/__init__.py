# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Split-KV decode kernels. Importing this package imports neither torch nor triton."""

__version__ = "0.1.0"
