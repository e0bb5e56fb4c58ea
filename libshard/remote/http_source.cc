#include "libshard/remote/http_source.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "libshard/base/text/text.h"

namespace moepack::remote {
namespace {

// Nearly all safetensors headers fit in this; those of GGUF files contain the tokenizer.
constexpr uint64_t kSafetensorsHead = 128u << 10;
constexpr uint64_t kGgufHead = 4u << 20;
constexpr uint64_t kHeadsInAll = 64u << 20;
constexpr uint64_t kMostKeptHead = 16u << 20;  // of one file
constexpr uint64_t kMostRange = 64u << 20;
// Consecutive reads below this size share a windowed request.
constexpr uint64_t kSmall = 64u << 10;
constexpr uint64_t kWindow = 1u << 20;
// A window is this many times as long as what was read before it, so that little is fetched in vain
// if only a few small tensors are adjacent.
constexpr uint64_t kAheadPerRun = 4;
// A hole of at most this size between two missing ranges is fetched again, because another request
// takes longer.
constexpr uint64_t kSmallHole = 256u << 10;

// A later part of a GGUF set has no tokenizer.
bool IsLaterPart(const std::string& name) {
  const size_t of = name.rfind("-of-");
  constexpr std::string_view kFirst = "-00001";
  return of != name.npos && of >= kFirst.size() &&
         name.compare(of - kFirst.size(), kFirst.size(), kFirst) != 0;
}

uint64_t HeadOf(const std::string& name) {
  return name.ends_with(".gguf") && !IsLaterPart(name) ? kGgufHead : kSafetensorsHead;
}

uint64_t NextKey() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

Status CheckSize(const FilePlace& place, const RemoteFile& file) {
  if (!place.size || file.size == *place.size) return Ok();
  return Error{
      Code::kCorrupt,
      Cat(place.name, ": size: expected ", *place.size, " bytes as listed, found ", file.size),
      "the server's listing and its files disagree: run the command again"};
}

std::string IdentityOf(const FilePlace& place, const RemoteFile& file) {
  if (!place.identity.empty()) return place.identity;
  return Cat(file.size, " bytes, ", file.validator.Shown());
}

const std::string& OriginOf(const FilePlace& place) {
  return place.cached_as.empty() ? place.name : place.cached_as;
}

// Joins missing ranges with small holes between them.
std::vector<CachedRange> WithoutSmallHoles(const std::vector<CachedRange>& missing) {
  std::vector<CachedRange> joined;
  for (const CachedRange& range : missing) {
    if (!joined.empty() && range.offset - joined.back().end() <= kSmallHole) {
      joined.back().length = range.end() - joined.back().offset;
    } else {
      joined.push_back(range);
    }
  }
  return joined;
}

// The first answer. If the cache may have the beginning, one byte is enough; a server without
// ranges is asked for a small file as a whole.
Result<FirstRange> AskFirst(const Transport& transport, const FilePlace& place) {
  HttpClient& client = *transport.client;
  if (transport.cache && transport.cache->Knows(OriginOf(place))) {
    Result<FirstRange> byte = ReadFirstRange(client, place.name, place.locate, 1);
    if (byte || byte.error().code != Code::kIo) return byte;
  }
  return ReadFirstRange(client, place.name, place.locate, HeadOf(place.name));
}

}  // namespace

Transport MakeTransport(HttpClientPtr client, std::shared_ptr<RangeCache> cache) {
  return {std::move(client), std::make_shared<HeadCache>(kHeadsInAll), std::move(cache)};
}

HttpSource::HttpSource(const Transport& transport, FilePlace place, RemoteFile file, bool known)
    : transport_(transport),
      place_(std::move(place)),
      answer_(std::make_unique<Answer>()),
      file_(std::move(file)),
      identity_(IdentityOf(place_, file_)),
      key_(NextKey()),
      window_(std::make_unique<Window>()) {
  const bool told_apart = !place_.identity.empty() || !file_.validator.empty();
  if (transport_.cache && told_apart && file_.size > 0) {
    cached_ =
        std::make_unique<CachedFile>(transport_.cache, OriginOf(place_), identity_, file_.size);
  }
  answer_->known = known;
  answer_->validator = std::move(file_.validator);
}

uint64_t HttpSource::HeadSize() const { return std::min(HeadOf(place_.name), file_.size); }

// `head` is what the first answer contained.
Status HttpSource::TakeHead(std::vector<std::byte> head) const {
  if (head.size() < HeadSize()) {
    head.resize(HeadSize());
    SHARD_CHECK(Fetch(0, head));
  } else if (cached_) {
    cached_->Keep(0, head);
  }
  transport_.heads->Put(key_, std::make_shared<const std::vector<std::byte>>(std::move(head)));
  return Ok();
}

// Null unless a listing identifies the content and the cache has its beginning.
std::shared_ptr<const HttpSource> HttpSource::OpenCached(const Transport& transport,
                                                         const FilePlace& place) {
  const bool told_apart = !place.identity.empty() || !place.listed.empty();
  if (!transport.cache || !place.size || !told_apart) return nullptr;
  RemoteFile file{place.name, *place.size, place.listed};
  const std::shared_ptr<const HttpSource> source(
      new HttpSource(transport, place, std::move(file), !place.listed.empty()));
  const bool there = source->cached_ && source->cached_->Covers(0, source->HeadSize());
  return there ? source : nullptr;
}

Result<ByteSourcePtr> HttpSource::Open(const Transport& transport, FilePlace place) {
  if (const auto cached = OpenCached(transport, place)) {
    SHARD_CHECK(cached->TakeHead({}));
    return ByteSourcePtr(cached);
  }
  SHARD_TRY(FirstRange first, AskFirst(transport, place));
  SHARD_CHECK(CheckSize(place, first.file));
  const bool known = !first.file.validator.empty() || !place.identity.empty() || first.whole ||
                     transport.client->settings().compared;
  if (!known && first.file.size > 0) {
    transport.client->settings().warn(
        Cat(place.name,
            ": the server gives neither ETag nor Last-Modified: only a change of the "
            "file's size would be noticed"));
  }
  const bool whole = first.whole;
  const std::shared_ptr<HttpSource> source(
      new HttpSource(transport, std::move(place), std::move(first.file), true));
  if (whole) {
    source->whole_ = std::make_shared<const std::vector<std::byte>>(std::move(first.head));
    return ByteSourcePtr(source);
  }
  SHARD_CHECK(source->TakeHead(std::move(first.head)));
  return ByteSourcePtr(source);
}

// The file as the server has it; the server is asked for one byte if it was not asked before.
Result<RemoteFile> HttpSource::Known() const {
  const std::lock_guard lock(answer_->mutex);
  if (!answer_->known) {
    SHARD_TRY(FirstRange first, ReadFirstRange(*transport_.client, place_.name, place_.locate, 1));
    SHARD_CHECK(CheckSize(place_, first.file));
    answer_->validator = std::move(first.file.validator);
    answer_->known = true;
  }
  return RemoteFile{file_.name, file_.size, answer_->validator};
}

Status HttpSource::Download(uint64_t offset, std::span<std::byte> out) const {
  SHARD_TRY(const RemoteFile file, Known());
  while (!out.empty()) {
    const auto piece = out.first(std::min<uint64_t>(out.size(), kMostRange));
    SHARD_CHECK(ReadRange(*transport_.client, file, place_.locate, offset, piece));
    offset += piece.size();
    out = out.subspan(piece.size());
  }
  return Ok();
}

// A commit says more than the ETag of whichever server answered.
std::optional<Origin> HttpSource::origin() const {
  Origin out{file_.name, place_.commit, "", place_.sha256};
  const std::lock_guard lock(answer_->mutex);
  const Validator& validator = answer_->validator;
  if (out.commit.empty() && !validator.empty()) out.validator = validator.Shown();
  return out;
}

Status HttpSource::Fetch(uint64_t offset, std::span<std::byte> out) const {
  if (!cached_) return Download(offset, out);
  uint64_t served = out.size();
  for (const CachedRange& range : WithoutSmallHoles(cached_->Take(offset, out))) {
    const auto part = out.subspan(range.offset - offset, range.length);
    SHARD_CHECK(Download(range.offset, part));
    cached_->Keep(range.offset, part);
    served -= range.length;
  }
  cached_->CountServed(served);
  return Ok();
}

// A read that begins in the head and ends after it belongs to a longer header.
void HttpSource::KeepHead(const HeadBytes& head, std::span<const std::byte> more) const {
  const uint64_t whole = head->size() + more.size();
  if (whole > kMostKeptHead || whole == kFarScanStep) return;  // a scan never comes back
  auto longer = std::make_shared<std::vector<std::byte>>(*head);
  longer->insert(longer->end(), more.begin(), more.end());
  transport_.heads->Put(key_, std::move(longer));
}

Status HttpSource::ReadSmall(uint64_t offset, std::span<std::byte> out) const {
  std::unique_lock lock(window_->mutex);
  Window& window = *window_;
  const bool inside =
      offset >= window.offset && offset + out.size() <= window.offset + window.bytes.size();
  const bool goes_on = offset >= window.next && offset - window.next < kSmall && window.next > 0;
  window.run = out.size() + (inside || goes_on ? window.run : 0);
  window.next = offset + out.size();
  if (!inside && !goes_on) {
    lock.unlock();  // distant reads of several threads are requested concurrently
    return Fetch(offset, out);
  }
  if (!inside) {
    const uint64_t ahead = std::min(kWindow, kAheadPerRun * window.run);
    std::vector<std::byte> bytes(std::min(ahead, file_.size - offset));
    SHARD_CHECK(Fetch(offset, bytes));
    window.bytes = std::move(bytes);
    window.offset = offset;
  }
  std::memcpy(out.data(), window.bytes.data() + (offset - window.offset), out.size());
  return Ok();
}

Status HttpSource::ReadAt(uint64_t offset, std::span<std::byte> out) const {
  if (out.empty()) return Ok();
  const uint64_t there = file_.size - std::min(offset, file_.size);
  if (out.size() > there) return EndsEarly(file_.name, offset, out.size(), there);
  const HeadBytes head = whole_ ? whole_ : transport_.heads->Get(key_);
  if (head == nullptr || offset >= head->size()) {
    return out.size() < kSmall ? ReadSmall(offset, out) : Fetch(offset, out);
  }
  const size_t known = std::min<uint64_t>(out.size(), head->size() - offset);
  std::memcpy(out.data(), head->data() + offset, known);
  const auto rest = out.subspan(known);
  if (rest.empty()) return Ok();
  SHARD_CHECK(Fetch(head->size(), rest));
  KeepHead(head, rest);
  return Ok();
}

Status HttpSource::CheckUnchanged() const {
  {
    const std::lock_guard lock(answer_->mutex);
    if (file_.size == 0 || whole_ || !answer_->known) return Ok();
  }
  // Not the first byte: s3rver treats "0-0" as no range.
  std::byte last;
  return Download(file_.size - 1, {&last, 1});
}

}  // namespace moepack::remote
