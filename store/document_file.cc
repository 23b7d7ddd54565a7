#include "store/document_file.h"

#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "store/metadata.h"
#include "store/record.h"

namespace recollect::store {
namespace {

constexpr Bytes kMagic = "RECOLDOC";
constexpr size_t kStartBytes = 16;  // magic, version, zero
constexpr size_t kSizeBytes = sizeof(uint32_t);
constexpr size_t kMaxNameBytes = 1024;
constexpr Bytes kFile = "document file";

uint32_t ReadU32(Bytes bytes) {
  uint32_t value;
  std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

std::string U32(uint32_t value) { return {reinterpret_cast<const char*>(&value), sizeof(value)}; }

// Of a document's file, and of the record of its head.
uint8_t FileVersionOf(const DocumentInfo& document) {
  return document.metadata.empty() ? kRecordVersion : kDocumentFileVersion;
}

// Owner 0 is nobody's.
std::string FrameKey(int64_t number) { return absl::StrCat("f", PieceKey(OwnerId{0}, number)); }

// In their order, for writing and for reading.
template <typename Record, typename Head>
void HeadFields(Record& record, Head& head) {
  auto& document = head.document;
  record.Fields(document.from_tokens, document.bytes, document.tokens, document.chunks);
  record.Signed(document.created_unix_ms);
  record.Fields(head.key_width, document.state_bytes, document.id, document.fingerprint,
                document.sha256, document.pattern);
}

}  // namespace

std::string EncodeFileHead(Bytes key, const FileHead& head) {
  const DocumentInfo& document = head.document;
  RecordWriter out(RecordType::kFileHead, 512, FileVersionOf(document));
  HeadFields(out, head);
  if (!document.metadata.empty()) out.Fields(document.metadata);
  return std::move(out).Finish(key);
}

absl::StatusOr<FileHead> DecodeFileHead(Bytes key, Bytes record, Bytes what) {
  const auto read = [](RecordReader& in, FileHead& head) {
    DocumentInfo& document = head.document;
    HeadFields(in, head);
    if (in.version() != kRecordVersion) {
      in.Fields(document.metadata);
      const absl::StatusOr<std::string> kept = ReadMetadata(document.metadata);
      if (!kept.ok() || kept->empty() || *kept != document.metadata) return false;
    }
    const bool prefix = !document.pattern.empty();
    document.text = !prefix && head.key_width == 0;
    // What stands in messages is short.
    return document.id.size() <= kMaxNameBytes && document.fingerprint.size() <= kMaxNameBytes &&
           document.sha256.size() <= kMaxNameBytes && prefix == (document.state_bytes > 0) &&
           prefix == (document.chunks == 0);
  };
  return DecodeFields<FileHead>(RecordType::kFileHead, key, record, what, read,
                                kDocumentFileVersion);
}

FrameWriter::FrameWriter(const DocumentInfo& document) {
  Append(kMagic);
  Append(U32(FileVersionOf(document)));
  Append(U32(0));
}

std::string FrameWriter::NextKey() const { return FrameKey(frames_); }

void FrameWriter::Append(Bytes bytes) {
  out_.append(bytes.data(), bytes.size());
  hash_.Update(bytes);
}

void FrameWriter::Add(Bytes record) {
  Append(U32(static_cast<uint32_t>(record.size())));
  Append(record);
  ++frames_;
}

void FrameWriter::AddEnd() {
  RecordWriter out(RecordType::kFileEnd, 128);
  out.Fields(frames_, hash_.Hex());
  const std::string record = std::move(out).Finish(NextKey());
  out_ += U32(static_cast<uint32_t>(record.size())) + record;
}

std::string FrameWriter::Take() { return std::exchange(out_, std::string()); }

void FrameReader::Append(Bytes bytes) {
  buffer_.erase(0, at_);
  at_ = 0;
  buffer_.append(bytes.data(), bytes.size());
  bytes_ += static_cast<int64_t>(bytes.size());
}

absl::Status FrameReader::ReadStart() {
  const Bytes start = rest().substr(0, kStartBytes);
  if (start.substr(0, kMagic.size()) != kMagic) {
    return absl::InvalidArgumentError(absl::StrCat(
        "not a ", kFile, " of Recollect: it begins with \"",
        absl::CHexEscape(start.substr(0, kMagic.size())), "\", expected \"", kMagic, "\""));
  }
  if (const uint32_t version = ReadU32(start.substr(kMagic.size()));
      version < kRecordVersion || version > kDocumentFileVersion) {
    return absl::FailedPreconditionError(absl::StrCat(kFile, " of version ", version,
                                                      ", this program reads versions 1 to ",
                                                      kDocumentFileVersion));
  }
  if (ReadU32(start.substr(kMagic.size() + sizeof(uint32_t))) != 0) {
    return Damaged(kFile, "its first 16 bytes do not parse");
  }
  hash_.Update(start);
  Skip(kStartBytes);
  started_ = true;
  return absl::OkStatus();
}

absl::Status FrameReader::ReadEnd(const Frame& frame) {
  ASSIGN_OR_RETURN(const Bytes payload,
                   OpenRecord(RecordType::kFileEnd, frame.key, frame.record, frame.name));
  RecordReader in(payload, kRecordVersion);
  const auto frames = in.Get<int64_t>();
  const auto sha256 = in.Get<std::string>();
  if (!in.done() || frames != frames_) {
    return Damaged(frame.name,
                   absl::StrCat("it counts ", frames, " records before it, not ", frames_));
  }
  if (const std::string found = hash_.Hex(); found != sha256) {
    return Damaged(kFile, absl::StrCat("SHA-256 ", found, ", expected ", sha256));
  }
  ended_ = true;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Frame>> FrameReader::Next() {
  if (!started_) {
    // What is no such file is told by its first bytes, however short it is.
    const Bytes magic = rest().substr(0, kMagic.size());
    if (rest().size() < kStartBytes && magic == kMagic.substr(0, magic.size())) {
      return std::nullopt;
    }
    RETURN_IF_ERROR(ReadStart());
  }
  if (ended_) {
    if (rest().empty()) return std::nullopt;
    return Damaged(kFile, absl::StrCat(rest().size(), " bytes stand behind its end"));
  }
  if (rest().size() < kSizeBytes) return std::nullopt;
  Frame frame;
  frame.name = absl::StrCat("record ", frames_, " of the ", kFile);
  const auto size = static_cast<int64_t>(ReadU32(rest()));
  if (size < static_cast<int64_t>(kRecordHeaderBytes) || size > kMaxFrameBytes) {
    return Damaged(frame.name, absl::StrCat("a size of ", size, " bytes, expected ",
                                            kRecordHeaderBytes, " to ", kMaxFrameBytes));
  }
  if (rest().size() < kSizeBytes + static_cast<size_t>(size)) return std::nullopt;
  const Bytes whole = rest().substr(0, kSizeBytes + static_cast<size_t>(size));
  frame.record = std::string(whole.substr(kSizeBytes));
  frame.key = FrameKey(frames_);
  frame.type = static_cast<RecordType>(frame.record[1]);
  if (frame.type == RecordType::kFileEnd) {
    RETURN_IF_ERROR(ReadEnd(frame));
    Skip(whole.size());
    return Next();  // OK only if nothing follows
  }
  hash_.Update(whole);
  Skip(whole.size());
  ++frames_;
  return frame;
}

absl::Status FrameReader::Finish() const {
  if (ended_) return absl::OkStatus();
  if (bytes_ == 0) return absl::InvalidArgumentError(absl::StrCat("the ", kFile, " is empty"));
  return Damaged(
      kFile, absl::StrCat("it ends after ", bytes_, " bytes, within or before record ", frames_));
}

}  // namespace recollect::store
