// SPDX-License-Identifier: MIT
// Holds the precompiled tests/catch.h that all test executables reuse.
