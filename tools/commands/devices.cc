#include "tools/commands/devices.h"

#include <nlohmann/json.hpp>

#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "runtime-shim/devices/executors.h"

namespace moepack::cli {
namespace {

// "0: llvmpipe", one per device; drivers name their devices, so the names are not ours.
std::vector<std::string> DevicesOf(const runtime::ExecutorKind& kind) {
  std::vector<std::string> lines = moepack::Split(kind.devices(), '\n');
  std::erase(lines, "");
  return lines;
}

}  // namespace

std::string DevicesText() {
  std::string text;
  for (const runtime::ExecutorKind& kind : runtime::AllExecutorKinds()) {
    if (kind.missing != nullptr) {
      text += Cat(kind.name, ": not in this build: ", kind.missing, "\n");
      continue;
    }
    const std::vector<std::string> devices = DevicesOf(kind);
    if (devices.empty()) text += Cat(kind.name, ": no device\n");
    for (const std::string& device : devices) {
      text += Cat(kind.name, " ", Shown(device), "\n");
    }
  }
  return text;
}

Json DevicesJson() {
  Json executors = Json::array();
  for (const runtime::ExecutorKind& kind : runtime::AllExecutorKinds()) {
    Json devices = Json::array();
    if (kind.missing == nullptr) {
      for (const std::string& device : DevicesOf(kind)) {
        const size_t colon = device.find(": ");
        const std::string name = colon == device.npos ? device : device.substr(colon + 2);
        devices.push_back({{"device", devices.size()}, {"name", name}});
      }
    }
    executors.push_back({{"executor", kind.name},
                         {"missing", kind.missing == nullptr ? Json(nullptr) : Json(kind.missing)},
                         {"devices", std::move(devices)}});
  }
  return {{"executors", std::move(executors)}};
}

}  // namespace moepack::cli
