// Where the source of a distribution was read, as far as its manifest says so.
#pragma once

#include <string>
#include <string_view>

#include "manifest/document/manifest.h"

namespace moepack::manifest {

// True for "owner/name" as the Hugging Face Hub takes it: two names of letters, digits, '-', '_'
// and '.', which neither begin nor end with '-' or '.' and hold no "--" and no "..".
bool IsHubName(std::string_view id);

// "owner/name" of the repository on the Hub from which every source file was read; "" when there is
// none, or more than one.
std::string HubRepositoryOf(const ModelRecord& model);

// The directory of all source files as an address for people: of the Hub the page of its commit,
// else the address itself. "" when the files were on the machine, or not in one place.
std::string SourceUrlOf(const ModelRecord& model);

}  // namespace moepack::manifest
