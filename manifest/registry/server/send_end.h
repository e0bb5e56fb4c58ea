// The result of one try to send a blob, and the request that ends every upload.
#pragma once

#include <cstdint>
#include <optional>

#include "libshard/base/result.h"
#include "manifest/registry/server/registry_client.h"
#include "manifest/registry/server/upload_body.h"

namespace moepack::registry {

struct SendEnd {
  enum class What : uint8_t {
    kDone,
    kAgain,      // retry in a new session, after a pause
    kRenewed,    // retry in a new session, with other credentials
    kOtherMode,  // the registry does not accept blobs in this way
    kFailed,
  } what = What::kDone;
  std::optional<Error> error = std::nullopt;  // unless it is done
  remote::HttpReply reply = {};               // says how long to wait
};

// "oci://host/x: blob sha256:... (groups/001/experts.gguf)".
std::string UploadName(const RegistryClient& client, const BlobRecord& blob);
SendEnd SendFailed(SendEnd::What what, Error error, remote::HttpReply reply = {});
// Ends a session with a PUT that sends the blob from `offset` on: all of it, or nothing after the
// last chunk.
SendEnd PutBlob(const RegistryClient& client, const UploadSession& session, UploadBody& body,
                uint64_t offset);

}  // namespace moepack::registry
