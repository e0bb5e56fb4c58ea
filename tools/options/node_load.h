// Opens a node according to the command line, and reports what was loaded.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "libshard/base/text/json.h"
#include "runtime-shim/session/node.h"

namespace moepack::cli {

// Node::Open with a progress line.
Result<std::unique_ptr<runtime::Node>> OpenNode(const std::string& source,
                                                runtime::NodeOptions options);

// Reports parts, bytes and how they got into memory, the executor, and what the routers may pick.
std::string LoadedText(const runtime::Node& node);
moepack::Json LoadedJson(const runtime::Node& node);

}  // namespace moepack::cli
