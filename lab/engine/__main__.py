# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
# The children are spawned by multiprocessing, which runs this file again: nothing else may be at its top.
if __name__ == "__main__":
    from lab.engine.launch import main

    main()
