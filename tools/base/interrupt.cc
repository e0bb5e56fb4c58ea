#include "tools/base/interrupt.h"

#include <csignal>

#include "libshard/base/parallel.h"

namespace moepack::cli {
namespace {

void RequestInterrupt(int) { InterruptRequested() = true; }

}  // namespace

void StopBetweenPieces() {
  InterruptRequested() = false;  // constructs it before a handler can run
  struct sigaction action = {};
  action.sa_handler = RequestInterrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace moepack::cli
