#include "manifest/registry/store_report.h"

namespace moepack::registry {

uint64_t StoreReport::added_bytes() const {
  uint64_t bytes = 0;
  for (const Blob& blob : blobs) bytes += blob.there ? 0 : blob.bytes;
  return bytes;
}

uint64_t StoreReport::bytes_by(const std::string& how) const {
  uint64_t bytes = 0;
  for (const Blob& blob : blobs) bytes += blob.how == how ? blob.bytes : 0;
  return bytes;
}

uint64_t StoreReport::there_bytes() const {
  uint64_t bytes = 0;
  for (const Blob& blob : blobs) bytes += blob.there ? blob.bytes : 0;
  return bytes;
}

}  // namespace moepack::registry
