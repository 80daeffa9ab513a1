# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The real SGLang 0.5.23 pair on CPU behind the real router: needs .cache/real-venv (tools/test-real makes it)."""
