#include "manifest/registry/server/upload.h"

#include <algorithm>
#include <utility>

#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"
#include "manifest/registry/server/chunked_upload.h"

namespace moepack::registry {
namespace {

using What = SendEnd::What;

// Pauses before a blob is resent are longer than those before a small request: 1, 2, 4, 8 s instead
// of 0.5, 1, 2, 4.
constexpr double kLongerPauses = 2;

remote::RetryRule RuleForBlobs(remote::RetryRule rule) {
  rule.first *= kLongerPauses;
  rule.most *= kLongerPauses;
  return rule;
}

}  // namespace

Uploader::Uploader(const RegistryClient& client, UploadOptions options)
    : client_(client),
      options_(std::move(options)),
      quirks_(QuirksOf(client.repository().origin.host)),
      journal_(options_.journal_directory, client.repository().host, client.repository().name),
      patience_(RuleForBlobs(client.http().settings().retry)) {}

Result<bool> Uploader::IsThere(const BlobRecord& blob) const {
  SHARD_TRY(const std::optional<Present> present, client_.HeadBlob(blob.digest));
  if (!present) return false;
  if (!present->size || *present->size == blob.size) return true;
  return Error{Code::kCorrupt,
               Cat(UploadName(client_, blob), ": size: expected ", blob.size, " bytes, found ",
                   *present->size),
               "the registry holds a corrupt copy: have it deleted there, then publish again"};
}

// If a registry does not mount, or does not say why, the blob is sent.
Result<bool> Uploader::Mounts(const BlobRecord& blob, std::optional<UploadSession>& session) const {
  for (const std::string& from : options_.mount_from) {
    if (from == client_.repository().name) continue;
    Result<std::optional<UploadSession>> mounted = client_.Mount(blob.digest, from);
    if (!mounted) {
      const Code code = mounted.error().code;
      if (code == Code::kIo || code == Code::kNotFound) continue;
      return std::move(mounted).error();
    }
    if (*mounted) {
      session = *std::move(mounted);
      continue;
    }
    return IsThere(blob);
  }
  return false;
}

bool Uploader::BeginsInChunks(uint64_t size) {
  if (options_.mode != UploadMode::kAuto) return options_.mode == UploadMode::kChunked;
  if (size >= refused_whole_) return true;
  if (size <= options_.whole_up_to || quirks_.whole_only) return false;
  const std::lock_guard lock(probing_);
  if (!survives_cuts_) survives_cuts_ = SurvivesCuts(client_);
  return *survives_cuts_;
}

SendEnd Uploader::SendOnce(UploadBody& body, std::optional<UploadSession>& session,
                           bool in_chunks) {
  if (Status ready = body.Restart(); !ready) return SendFailed(What::kFailed, ready.error());
  ChunkRule rule{options_.chunk_bytes, quirks_.range_stays};
  if (quirks_.most_chunk > 0) rule.bytes = std::min(rule.bytes, quirks_.most_chunk);
  ChunkedUpload chunked(client_, journal_, body, rule);
  if (in_chunks && chunked.Resume()) return chunked.Run();
  if (!session) {
    Result<UploadSession> started = client_.StartUpload();
    if (!started) return SendFailed(What::kFailed, std::move(started).error());
    session = *std::move(started);
  }
  const UploadSession used = *std::exchange(session, std::nullopt);  // used up, whatever the result
  if (!in_chunks) return PutBlob(client_, used, body, 0);
  chunked.Begin(used);
  return chunked.Run();
}

Status Uploader::CheckArrived(const SendEnd& end, const BlobRecord& blob) const {
  if (!end.reply.Field("docker-content-digest").empty()) return Ok();
  SHARD_TRY(const bool there, IsThere(blob));
  if (there) return Ok();
  return Error{Code::kIo,
               Cat(UploadName(client_, blob), ": expected it to be there now, found nothing"),
               "the registry accepted the blob but does not have it: run the command again later"};
}

Status Uploader::Send(UploadBody& body, std::optional<UploadSession> session) {
  const remote::HttpSettings& settings = client_.http().settings();
  const remote::RetryRule rule = RuleForBlobs(settings.retry);
  remote::Patience::Failures failures;
  const std::string name = UploadName(client_, body.blob());
  bool renewed = false, switched = false, in_chunks = BeginsInChunks(body.size());
  while (true) {
    SHARD_CHECK(CheckInterrupt());
    SendEnd end = SendOnce(body, session, in_chunks);
    if (end.what == What::kDone) return CheckArrived(end, body.blob());
    if (end.what == What::kRenewed && !renewed) {
      renewed = true;
      continue;
    }
    if (end.what == What::kOtherMode && options_.mode == UploadMode::kAuto && !switched) {
      switched = true;
      if (!in_chunks) refused_whole_ = std::min<uint64_t>(refused_whole_, body.size());
      in_chunks = !in_chunks;
      settings.warn(Cat(end.error->message, "; sending it ", in_chunks ? "in chunks" : "whole"));
      continue;
    }
    if (end.what != What::kAgain) return *std::move(end.error);
    const bool reached = end.reply.status != 0 || end.error->code != Code::kUnavailable;
    if (patience_.IsOver(failures, reached, remote::Patience::Clock::now())) {
      end.error->message += remote::TriesText(rule, failures);
      return *std::move(end.error);
    }
    settings.warn(Cat(end.error->message, "; sending the blob again, try ", failures.tries + 1));
    SHARD_CHECK(remote::HttpClient::PauseAfterTry(rule, name, end.reply, failures.tries));
    // The answer may have been lost, not the blob.
    SHARD_TRY(const bool there, IsThere(body.blob()));
    if (there) return Ok();
    renewed = false;
  }
}

Result<Added> Uploader::Upload(const ByteSource& source, const BlobRecord& blob,
                               const PieceDone& read) {
  SHARD_TRY(const bool there, IsThere(blob));
  if (there) {
    journal_.Forget(blob.digest);  // left by a run that was killed just before it could
    there_.Count(blob.size);
    return Added{"there"};
  }
  std::optional<UploadSession> session;
  SHARD_TRY(const bool mounted, Mounts(blob, session));
  if (mounted) {
    mounted_.Count(blob.size);
    return Added{"mounted"};
  }
  UploadBody body(source, blob, read);
  SHARD_CHECK(Send(body, std::move(session)));
  patience_.Note(remote::Patience::Clock::now());
  sent_.Count(blob.size);
  return Added{"sent"};
}

UploadCounts Uploader::counts() const { return {sent_.Value(), there_.Value(), mounted_.Value()}; }

}  // namespace moepack::registry
