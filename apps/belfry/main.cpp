// SPDX-License-Identifier: MIT
#include "belfry/apps/cli.h"

int main(int argc, char** argv) { return belfry::cli(belfry::builtin(), argc, argv); }
