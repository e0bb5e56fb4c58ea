// References as commands take them: what a registry, a layout or a tree of files holds.
#pragma once

#include <CLI/App.hpp>
#include <string>

namespace moepack::cli {

// A required argument that holds a reference; `help` says which kinds the command takes.
void AddReference(CLI::App& app, const std::string& name, std::string& text,
                  const std::string& help);

}  // namespace moepack::cli
