// What `publish`, `copy` and `tag` print about blobs and tags.
#pragma once

#include <string>

#include "libshard/base/text/json.h"
#include "manifest/registry/store_report.h"

namespace moepack::cli {

// What happened to a tag: "new", "as it was", "moved".
std::string TagState(const registry::StoreReport::Tag& tag);

std::string BlobTable(const registry::StoreReport& report);
std::string TagTable(const registry::StoreReport& report);
// "v1 is sha256:...", of the first tag, and how many others there are.
std::string TagLine(const registry::StoreReport& report);
// "7.55 MB (...) new, 68.8 kB (...) of them copied; 0 B already there".
std::string BytesText(const registry::StoreReport& report, bool dry_run);

moepack::Json TagsJson(const registry::StoreReport& report);
// Adds tags, blobs and sums of bytes to a document.
void AddStoreJson(const registry::StoreReport& report, moepack::Json& document);

}  // namespace moepack::cli
