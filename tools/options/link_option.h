// --link: how files get from one directory into another.
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "manifest/registry/artifact/reference.h"
#include "manifest/write/link_file.h"

namespace moepack::cli {

struct LinkHelp {
  std::string what;  // "how the trunk gets into a split set"
  // By manifest::LinkName, those that the command takes; the first is auto.
  std::vector<std::string> kinds;
};
void AddLink(CLI::App& app, std::optional<manifest::LinkKind>& link, const LinkHelp& help);

// Refuses a kind other than auto if `place`, from or to which files get, is on another machine.
Status CheckLinkUse(const std::optional<manifest::LinkKind>& link,
                    const registry::Reference& place);

}  // namespace moepack::cli
