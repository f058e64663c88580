// SPDX-License-Identifier: MIT
// What the command, the library and the CUDA plug-in need to be loaded, and what is said when a
// part is missing.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <regex>
#include <set>

#include "belfry/tests/catch.h"

#ifdef BELFRY_COMMAND

namespace {

namespace fs = std::filesystem;

std::string output_of(const std::string& command) {
  FILE* const pipe = popen(("( " + command + " ) 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string out;
  char buffer[4096];
  while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) out += buffer;
  pclose(pipe);
  return out;
}

// The libraries that a file names itself.
std::set<std::string> needed(const std::string& file) {
  const std::string text = output_of("readelf -d '" + file + "'");
  const std::regex line(R"(\(NEEDED\).*\[(.*)\])");
  std::set<std::string> out;
  for (std::sregex_iterator i(text.begin(), text.end(), line), end; i != end; ++i)
    out.insert((*i)[1].str());
  return out;
}

bool any_of_cuda(const std::set<std::string>& libraries) {
  for (const std::string& l : libraries)
    if (std::regex_search(l, std::regex("cuda|cublas|cudnn|nccl|nvrtc"))) return true;
  return false;
}

const std::string kCommand = BELFRY_COMMAND;
const std::string kLibrary = std::string(BELFRY_BINARY_DIR) + "/lib/libbelfry.so";
const std::string kPlugin = std::string(BELFRY_BINARY_DIR) + "/lib/libbelfry_cuda.so";

std::string devices(const std::string& environment) {
  return output_of("env " + environment + " '" + kCommand + "' devices");
}

}  // namespace

TEST_CASE("command and library start without any library of CUDA") {
  CHECK_FALSE(any_of_cuda(needed(kCommand)));
  CHECK_FALSE(any_of_cuda(needed(kLibrary)));
  // Everything that is loaded, not only what is named.
  CHECK(output_of("ldd '" + kCommand + "'").find("cuda") == std::string::npos);
  CHECK(output_of("ldd '" + kCommand + "'").find("nccl") == std::string::npos);
}

TEST_CASE("the plug-in needs NCCL, cuDNN and cuBLASLt, and shows its entry alone") {
  if (!fs::exists(kPlugin)) {
    WARN("skipped: this build has no CUDA plug-in");
    return;
  }
  std::set<std::string> of_cuda;
  for (const std::string& l : needed(kPlugin))
    if (any_of_cuda({l}) && l.find("belfry") == std::string::npos) of_cuda.insert(l);
  for (const std::string& l : of_cuda) {
    INFO(l);
    CHECK(std::regex_match(l, std::regex(R"(lib(nccl|cudnn|cublasLt)\.so\.\d+)")));
  }
  const std::string symbols = output_of("nm -D --defined-only '" + kPlugin + "' | grep ' T '");
  CHECK(symbols.find("belfry_cuda_entry") != std::string::npos);
  CHECK(std::count(symbols.begin(), symbols.end(), '\n') == 1);
}

TEST_CASE("belfry devices says which part of CUDA is missing") {
  using Catch::Matchers::Contains;
  const bool driver = output_of("ldconfig -p").find("libcuda.so.1") != std::string::npos;
  if (driver)
    WARN("skipped: this machine has an NVIDIA driver");
  else
    CHECK_THAT(devices(""), Contains("cuda driver: libcuda.so.1: cannot open"));
  CHECK_THAT(devices("BELFRY_CUDA_PLUGIN=/nowhere/libbelfry_cuda.so"),
             Contains("the CUDA plug-in is not there") && Contains("BELFRY_CUDA=ON"));
  if (!fs::exists(kPlugin)) return;
  CHECK_THAT(devices(""), Contains("cuda plug-in: CUDA "));
  // Without libnccl: the loader finds a folder in its place, which it cannot open.
  const std::string hidden =
      output_of("command -v unshare >/dev/null && unshare -rm sh -c 'f=$(ldd " + kPlugin +
                " | sed -n \"s/.*libnccl.* => \\(.*\\) (.*/\\1/p\"); test -n \"$f\" && mount "
                "--bind /dev/null "
                "$(readlink -f $f) && " +
                kCommand + " devices'");
  if (hidden.empty())
    WARN("skipped: libnccl cannot be hidden here");
  else
    CHECK_THAT(hidden, Contains("the CUDA plug-in cannot be loaded") && Contains("libnccl.so"));
}

TEST_CASE("towers on GPUs without a driver are a DeviceError that says so") {
  const std::string out =
      output_of("'" + kCommand + "' train '" + std::string(BELFRY_SOURCE_DIR) +
                "/apps/configs/fashion-lenet.toml' --towers cuda:all; echo \"exit $?\"");
  if (output_of("ldconfig -p").find("libcuda.so.1") != std::string::npos) return;
  CHECK(out.find("libcuda.so.1") != std::string::npos);
  CHECK(out.find("cpu:2") != std::string::npos);
  CHECK(out.find("exit 7") != std::string::npos);
}

TEST_CASE("BELFRY_ISA chooses the kernels and is refused where it cannot be had") {
  using Catch::Matchers::Contains;
  CHECK_THAT(devices("BELFRY_ISA=x86-64"), Contains("kernels: x86-64 of x86-64"));
  const std::string refused = devices("BELFRY_ISA=mmx") +
                              output_of("BELFRY_ISA=mmx '" + kCommand + "' devices; echo exit $?");
  CHECK_THAT(refused, Contains("BELFRY_ISA") && Contains("found mmx, expected x86-64") &&
                          Contains("exit 2"));
}

TEST_CASE("kernels of an instruction set share no function with the rest") {
  for (const std::string set : {"avx2", "avx512"}) {
    const std::string object =
        std::string(BELFRY_BINARY_DIR) + "/generated/" + set + "/host_kernels.o";
    if (!fs::exists(object)) {
      WARN("skipped: this build has no kernels for " << set);
      continue;
    }
    CHECK(output_of("nm --defined-only --extern-only '" + object +
                    "' | grep -v ' T belfry_host_kernels_" + set + "_[0-9]$'") == "");
    CHECK(output_of("readelf -g '" + object + "' | grep -c COMDAT") == "0\n");
    // Nor is any of it run when the library is loaded.
    CHECK(output_of("readelf -SW '" + object + "' | grep -c init_array") == "0\n");
  }
}

#endif
