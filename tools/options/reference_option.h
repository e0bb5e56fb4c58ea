// References as commands accept them, and how to reach what they name.
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "libshard/base/result.h"
#include "manifest/registry/open_store.h"
#include "tools/options/registry_options.h"

namespace moepack::cli {

// A required argument that holds a reference; `help` says which kinds the command accepts.
void AddReference(CLI::App& app, const std::string& name, std::string& text,
                  const std::string& help);

// An image layout here, or a distribution as files here.
bool IsOnThisMachine(const registry::Reference& reference);

// What a command names by a reference, and the access to it. The access borrows `arguments`.
struct NamedStore {
  registry::Reference reference;
  registry::StoreAccess access;
};
// Errors are those of ParseReference; kInvalidArgument for options that have no effect on this kind
// of reference.
Result<NamedStore> ParseNamed(const std::string& text, const RegistryArguments& arguments,
                              const registry::UploadOptions& upload = {});

}  // namespace moepack::cli
