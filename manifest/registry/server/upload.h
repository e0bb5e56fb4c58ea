// Puts blobs into a registry: found there, mounted from another repository, or sent.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/files/byte_source.h"
#include "libshard/base/progress.h"
#include "libshard/base/result.h"
#include "libshard/remote/http/patience.h"
#include "manifest/registry/artifact/oci_manifest.h"
#include "manifest/registry/server/host_quirks.h"
#include "manifest/registry/server/registry_client.h"
#include "manifest/registry/server/send_end.h"
#include "manifest/registry/server/upload_body.h"
#include "manifest/registry/server/upload_journal.h"
#include "manifest/registry/store/store.h"

namespace moepack::registry {

enum class UploadMode : uint8_t {
  kAuto,     // whole, and in chunks if the registry refuses that
  kWhole,    // one PUT
  kChunked,  // PATCH after PATCH
};

struct UploadOptions {
  UploadMode mode = UploadMode::kAuto;
  uint64_t chunk_bytes = 64u << 20;  // for chunked uploads; the registry may require longer ones
  // Larger blobs are sent in chunks if the registry can resume them after a cut.
  uint64_t whole_up_to = uint64_t{1} << 30;
  // Repositories of the same registry, "team/model", that may already have blobs.
  std::vector<std::string> mount_from = {};
  // Where chunked uploads are noted, so that another process can resume them; "" for nowhere.
  std::string journal_directory = {};
};

// Blobs and their bytes.
struct UploadCounts {
  struct Kind {
    uint64_t blobs = 0, bytes = 0;
  };
  Kind sent, there, mounted;
};

// Safe to use from several threads at once. Borrows the client.
class Uploader {
 public:
  Uploader(const RegistryClient& client, UploadOptions options);

  // Makes sure that the blob is there: "there", "mounted" or "sent", as in Added. After a cut
  // connection or a transient error it is retried from the start of the blob, as long as the
  // registry takes others (remote::Patience). kMismatch, and the registry does not get it, if the
  // source has other bytes; kCorrupt if the registry has it with another size; otherwise the errors
  // of RegistryClient.
  Result<Added> Upload(const ByteSource& source, const BlobRecord& blob, const PieceDone& read);

  UploadCounts counts() const;
  // REQUIRES: no upload is in progress.
  void SetMountFrom(std::vector<std::string> repositories) {
    options_.mount_from = std::move(repositories);
  }

 private:
  // Whether the blob is there, with its size.
  Result<bool> IsThere(const BlobRecord& blob) const;
  Result<bool> Mounts(const BlobRecord& blob, std::optional<UploadSession>& session) const;
  Status Send(UploadBody& body, std::optional<UploadSession> session);
  bool BeginsInChunks(uint64_t size);
  SendEnd SendOnce(UploadBody& body, std::optional<UploadSession>& session, bool in_chunks);
  Status CheckArrived(const SendEnd& end, const BlobRecord& blob) const;

  const RegistryClient& client_;
  UploadOptions options_;
  HostQuirks quirks_;
  UploadJournal journal_;
  std::mutex probing_;
  std::optional<bool> survives_cuts_;
  std::atomic<uint64_t> refused_whole_{UINT64_MAX};  // size of the smallest blob
  struct Counter {
    std::atomic<uint64_t> blobs{0}, bytes{0};
    void Count(uint64_t size) {
      ++blobs;
      bytes += size;
    }
    UploadCounts::Kind Value() const { return {blobs, bytes}; }
  };
  Counter sent_, there_, mounted_;
  remote::Patience patience_;  // blobs that were sent are progress
};

}  // namespace moepack::registry
