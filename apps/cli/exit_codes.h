// SPDX-License-Identifier: MIT
#pragma once
#include "belfry/core/error.h"

namespace belfry {

// The exit codes of the belfry command, all of them here.
enum ExitCode : int {
  kExitOk = 0,
  kExitConfig = 2,  // config, flags and arguments
  kExitData = 3,
  kExitGradient = 4,
  kExitNumeric = 5,
  kExitCheckpoint = 6,
  kExitDevice = 7,
  kExitComm = 8,
  kExitTower = 9,
  kExitUnexpected = 70,
  kExitSignal = 128,  // plus the signal: 129 SIGHUP, 130 SIGINT, 143 SIGTERM
};

constexpr int exit_code_of(ErrorClass kind) {
  switch (kind) {
    case ErrorClass::config:
      return kExitConfig;
    case ErrorClass::data:
      return kExitData;
    case ErrorClass::gradient:
      return kExitGradient;
    case ErrorClass::numeric:
      return kExitNumeric;
    case ErrorClass::checkpoint:
      return kExitCheckpoint;
    case ErrorClass::device:
      return kExitDevice;
    case ErrorClass::comm:
      return kExitComm;
    case ErrorClass::tower:
      return kExitTower;
  }
  return kExitUnexpected;
}

}  // namespace belfry
