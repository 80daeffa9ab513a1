# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A simulated SGLang engine: true to the real one in what an operator's tools look at, and made of sleeping."""
