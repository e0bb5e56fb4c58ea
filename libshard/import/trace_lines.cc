#include "libshard/import/trace_lines.h"

#include <algorithm>
#include <span>

#include "libshard/base/text/text.h"

namespace moepack {
namespace {

// A row of `pos,layer,id,...` has at most 4096 ids of 4 digits.
constexpr size_t kMaxTraceLine = 1u << 16;

}  // namespace

Status TraceLines::Fill() {
  buffer_.erase(0, next_);
  next_ = 0;
  SHARD_TRY(const std::string_view piece, text_.Next());
  digest_.Update(std::as_bytes(std::span(piece)));
  buffer_ += piece;
  ended_ = piece.empty();
  return Ok();
}

Result<std::optional<std::string_view>> TraceLines::Next() {
  size_t end = buffer_.find('\n', next_);
  while (end == std::string::npos && !ended_) {
    if (buffer_.size() - next_ > kMaxTraceLine) break;
    const size_t unfinished = buffer_.size() - next_;
    SHARD_CHECK(Fill());
    end = buffer_.find('\n', unfinished);
  }
  ++number_;
  if (end == std::string::npos && next_ == buffer_.size()) return std::optional<std::string_view>();
  const size_t stop = std::min(end, buffer_.size());
  std::string_view line = std::string_view(buffer_).substr(next_, stop - next_);
  if (line.size() > kMaxTraceLine)
    return Error{Code::kCorrupt,
                 Cat(Where(), ": expected at most ", kMaxTraceLine, " bytes, found more")};
  next_ = std::min(stop + 1, buffer_.size());
  if (line.ends_with('\r')) line.remove_suffix(1);
  return std::optional(line);
}

std::string TraceLines::Where() const { return Cat(name_, ": line ", number_); }

Error TraceLines::Wrong(std::string_view expected, std::string_view found) const {
  return {Code::kCorrupt, Cat(Where(), ": expected ", expected, ", found ", Quoted(found))};
}

void SplitTraceRow(std::string_view line, std::vector<std::string_view>& fields) {
  fields.clear();
  size_t begin = 0;
  for (size_t comma = line.find(','); comma != std::string_view::npos;
       comma = line.find(',', begin)) {
    fields.push_back(line.substr(begin, comma - begin));
    begin = comma + 1;
  }
  fields.push_back(line.substr(begin));
}

}  // namespace moepack
