#include "libshard/remote/http_source.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "libshard/base/text.h"

namespace moepack::remote {
namespace {

// The headers of nearly all safetensors fit; those of GGUF files hold the tokenizer.
constexpr uint64_t kSafetensorsHead = 128u << 10;
constexpr uint64_t kGgufHead = 4u << 20;
constexpr uint64_t kHeadsInAll = 64u << 20;
constexpr uint64_t kMostKeptHead = 16u << 20;  // of one file
constexpr uint64_t kMostRange = 64u << 20;
// Reads below this size that follow each other share a request of a window.
constexpr uint64_t kSmall = 64u << 10;
constexpr uint64_t kWindow = 1u << 20;

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

}  // namespace

Transport MakeTransport(HttpClientPtr client) {
  return {std::move(client), std::make_shared<HeadCache>(kHeadsInAll)};
}

HttpSource::HttpSource(const Transport& transport, FilePlace place, FirstRange first)
    : transport_(transport),
      place_(std::move(place)),
      file_(std::move(first.file)),
      identity_(place_.identity),
      key_(NextKey()),
      window_(std::make_unique<Window>()) {
  if (identity_.empty()) identity_ = Cat(file_.size, " bytes, ", file_.validator.Shown());
  auto head = std::make_shared<const std::vector<std::byte>>(std::move(first.head));
  if (first.whole) whole_ = head;
  if (!first.whole) transport_.heads->Put(key_, std::move(head));
}

Result<ByteSourcePtr> HttpSource::Open(const Transport& transport, FilePlace place) {
  SHARD_TRY(FirstRange first,
            ReadFirstRange(*transport.client, place.name, place.locate, HeadOf(place.name)));
  if (place.size && first.file.size != *place.size) {
    return Error{Code::kCorrupt,
                 Cat(place.name, ": size: expected ", *place.size, " bytes as listed, found ",
                     first.file.size),
                 "the server's listing and its files disagree: run the command again"};
  }
  const bool known = !first.file.validator.empty() || !place.identity.empty() || first.whole;
  if (!known && first.file.size > 0) {
    transport.client->settings().warn(
        Cat(place.name,
            ": the server gives neither ETag nor Last-Modified: only a change of the "
            "file's size would be noticed"));
  }
  return ByteSourcePtr(std::shared_ptr<const HttpSource>(
      new HttpSource(transport, std::move(place), std::move(first))));
}

Status HttpSource::Fetch(uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const auto piece = out.first(std::min<uint64_t>(out.size(), kMostRange));
    SHARD_CHECK(ReadRange(*transport_.client, file_, place_.locate, offset, piece));
    offset += piece.size();
    out = out.subspan(piece.size());
  }
  return Ok();
}

// A read that begins in the head and ends behind it was of a longer header.
void HttpSource::KeepHead(const HeadBytes& head, std::span<const std::byte> more) const {
  if (head->size() + more.size() > kMostKeptHead) return;
  auto longer = std::make_shared<std::vector<std::byte>>(*head);
  longer->insert(longer->end(), more.begin(), more.end());
  transport_.heads->Put(key_, std::move(longer));
}

Status HttpSource::ReadSmall(uint64_t offset, std::span<std::byte> out) const {
  const std::lock_guard lock(window_->mutex);
  Window& window = *window_;
  const bool inside =
      offset >= window.offset && offset + out.size() <= window.offset + window.bytes.size();
  const bool goes_on = offset >= window.next && offset - window.next < kSmall && window.next > 0;
  window.next = offset + out.size();
  if (!inside && !goes_on) return Fetch(offset, out);
  if (!inside) {
    std::vector<std::byte> bytes(std::min(kWindow, file_.size - offset));
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
  if (file_.size == 0 || whole_) return Ok();
  // Not the first: s3rver takes "0-0" for no range.
  std::byte last;
  return Fetch(file_.size - 1, {&last, 1});
}

}  // namespace moepack::remote
