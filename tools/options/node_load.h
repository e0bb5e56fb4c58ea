// Opens a node according to the command line, and reports what was loaded.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "runtime-shim/session/node.h"
#include "tools/options/runtime_options.h"

namespace moepack::cli {

runtime::NodeOptions NodeOptionsOf(const RuntimeArguments& arguments,
                                   std::optional<uint32_t> group);
// Node::Open with a progress line.
Result<std::unique_ptr<runtime::Node>> OpenNode(const std::string& source,
                                                runtime::NodeOptions options);

// Reports parts, bytes and how they got into memory, the executor, and what the routers may pick.
std::string LoadedText(const runtime::Node& node);
moepack::Json LoadedJson(const runtime::Node& node);

}  // namespace moepack::cli
