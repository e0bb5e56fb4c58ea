// Where the source of a distribution was read, as far as its manifest says so.
#pragma once

#include <string>
#include <string_view>

#include "manifest/document/manifest.h"

namespace moepack::manifest {

// True for "owner/name" as the Hugging Face Hub accepts it: two names of letters, digits, '-', '_'
// and '.', which neither begin nor end with '-' or '.' and contain neither "--" nor "..".
bool IsHubName(std::string_view id);

// "owner/name" of the repository on the Hub from which every source file was read; "" if there is
// none or more than one.
std::string HubRepositoryOf(const ModelRecord& model);

// The directory of all source files as an address for people: the page of the commit on the Hub,
// otherwise the address itself. "" if the files were on the machine, or not in one place.
std::string SourceUrlOf(const ModelRecord& model);

}  // namespace moepack::manifest
