// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <string_view>

// What is generated for the plug-in from the files it is made of.
namespace belfry {

// The value of `const void* extension_<name>()` in a *_cuda.cpp: what a layer above device brings
// into the plug-in (a transport); null where this build has none.
const void* find_extension(std::string_view name);

// ", cuBLASLt 13.1.0, NCCL 2.28.9, cuDNN 9.19.0": what this plug-in was built with.
std::string library_versions();

}  // namespace belfry
