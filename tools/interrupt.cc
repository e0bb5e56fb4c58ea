#include "tools/interrupt.h"

#include <csignal>

#include "libshard/base/parallel.h"

namespace cli {
namespace {

void RequestInterrupt(int) { shard::InterruptRequested() = true; }

}  // namespace

void StopBetweenPieces() {
  shard::InterruptRequested() = false;  // constructs it before a handler can run
  struct sigaction action = {};
  action.sa_handler = RequestInterrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace cli
