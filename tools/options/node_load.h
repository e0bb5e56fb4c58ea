// A node opened as the command line says, and what came with it.
#pragma once

#include <memory>
#include <string>

#include "runtime-shim/node.h"
#include "tools/options/runtime_options.h"

namespace cli {

runtime::NodeOptions NodeOptionsOf(const RuntimeArguments& arguments, int group);
// Node::Open with a progress line.
Result<std::unique_ptr<runtime::Node>> OpenNode(const std::string& source,
                                                runtime::NodeOptions options);

// Parts, bytes and how they came into memory; the executor and what the routers may pick.
std::string LoadedText(const runtime::Node& node);
shard::Json LoadedJson(const runtime::Node& node);

}  // namespace cli
