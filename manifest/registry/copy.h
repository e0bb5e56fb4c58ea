// Copies what one store holds into another, byte for byte.
#pragma once

#include "libshard/base/result.h"
#include "manifest/registry/artifact/reference.h"
#include "manifest/registry/store_report.h"

namespace moepack::registry {

// Copies the manifest that `from` names with every blob that it names, and gives it the tag of
// `to`, by default that of `from`. The manifest may be of any artifact; an index is kUnsupported.
// Digests stay the same, and every byte is checked against its digest on the way (kMismatch,
// kCorrupt). Tags are set at the very end. If `from` lacks a blob, the result is kNotFound with its
// name, and nothing is copied. A tag that names a different manifest is kInvalidArgument without
// `force`, and so is a `to` with a digest.
Result<StoreReport> Copy(const Reference& from, const Reference& to, const PutOptions& options);

}  // namespace moepack::registry
