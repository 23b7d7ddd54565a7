#include "store/format.h"

#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>

#include "absl/strings/escaping.h"
#include "store/crc32c.h"
#include "tests/store/format_samples.h"

namespace recollect::store {
namespace {

using ::absl::StatusCode;

TEST(Crc32cTest, KnownVectors) {
  EXPECT_EQ(Crc32c(""), 0u);
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(Crc32c("56789", Crc32c("1234")), 0xE3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAu);  // RFC 3720, B.4
}

TEST(FormatTest, KeysSortAsNumbers) {
  EXPECT_EQ(absl::BytesToHexString(PieceKey(OwnerId{0x0102}, 3)),
            "00000000000001020000000000000003");
  EXPECT_LT(PieceKey(OwnerId{255}, 256), PieceKey(OwnerId{256}, 0));
  EXPECT_LT(PieceKey(OwnerId{7}, 255), PieceKey(OwnerId{7}, 256));
  EXPECT_LE(OwnerKey(OwnerId{7}), PieceKey(OwnerId{7}, 0));
  EXPECT_LT(PieceKey(OwnerId{7}, INT64_MAX), OwnerKey(OwnerId{8}));
}

TEST(FormatTest, RoundTrip) {
  const auto samples = Samples();
  const auto document =
      DecodeDocument(samples.at("document").key, samples.at("document").record, "");
  ASSERT_THAT(document, IsOk());
  EXPECT_EQ(document->id, "moby dick");
  EXPECT_EQ(document->owner, OwnerId{42});
  EXPECT_TRUE(document->from_tokens);
  EXPECT_EQ(document->created_unix_ms, 1717770000000);
  EXPECT_EQ(document->stored_bytes, 5);
  EXPECT_EQ(document->sha256, std::string(64, 'f'));
  const auto ingest = DecodeIngest(samples.at("ingest").key, samples.at("ingest").record, "");
  ASSERT_THAT(ingest, IsOk());
  EXPECT_EQ(ingest->progress.input_offset, 9);
  EXPECT_EQ(ingest->progress.fingerprint, "0123abcd");
  EXPECT_EQ(ingest->chunk_bytes, 5000);
  EXPECT_EQ(ingest->d_k, 128);
  const auto chunk = DecodeChunk(samples.at("chunk").key, samples.at("chunk").record, "");
  ASSERT_THAT(chunk, IsOk());
  EXPECT_TRUE(*chunk == MakeChunk(1, 7, 4, 3));
  EXPECT_EQ(static_cast<int64_t>(samples.at("chunk").record.size()), ChunkRecordBytes(*chunk));
  const auto meta = DecodeMeta(samples.at("meta").key, samples.at("meta").record);
  ASSERT_THAT(meta, IsOk());
  EXPECT_EQ(meta->next_owner, 4097u);
  const auto tokens = DecodeTokens(samples.at("tokens").key, samples.at("tokens").record, "");
  EXPECT_THAT(*tokens, testing::ElementsAreArray(kTokens));
  const auto keys =
      DecodeLandmarks(samples.at("landmarks").key, samples.at("landmarks").record, "");
  EXPECT_EQ(keys->d_k, 3);
  EXPECT_THAT(keys->keys, testing::ElementsAreArray(kKeys));
  EXPECT_EQ(document->pattern, "");
  const auto prefixes = PrefixSamples();
  const auto prefix =
      DecodeDocument(prefixes.at("document").key, prefixes.at("document").record, "");
  ASSERT_THAT(prefix, IsOk());
  EXPECT_EQ(prefix->id, "moby dick");
  EXPECT_EQ(prefix->pattern, "(window 8)");
  EXPECT_EQ(prefix->state_bytes, 1 << 21);
  EXPECT_EQ(prefix->first_state_part, 3);
  const auto begun = DecodeIngest(prefixes.at("ingest").key, prefixes.at("ingest").record, "");
  ASSERT_THAT(begun, IsOk());
  EXPECT_EQ(begun->progress.pattern, "(window 8)");
  EXPECT_EQ(begun->progress.first_state_part, 3);
  EXPECT_EQ(*DecodeState(prefixes.at("state").key, prefixes.at("state").record, ""),
            "bytes of a state");
}

TEST(FormatTest, MxInt8ChunksRoundTripInHalfTheBytes) {
  const std::string key = PieceKey(OwnerId{42}, 7);
  for (const bool tokens : {false, true}) {
    ChunkRecord chunk = SmallChunk(tokens);
    const std::string record = EncodeChunk(key, chunk);
    const auto decoded = DecodeChunk(key, record, "");
    ASSERT_THAT(decoded, IsOk());
    EXPECT_TRUE(*decoded == chunk);
    EXPECT_EQ(ChunkRecordBytes(chunk), std::ssize(record));
    // Two rows of 40 numbers: 80 codes and three exponents.
    EXPECT_EQ(std::ssize(record), 8 + 24 + 4 + 4 * std::ssize(chunk.tokens) + 83);
    chunk.mxint8 = false;
    EXPECT_TRUE(*DecodeChunk(key, EncodeChunk(key, chunk), "") == chunk);
  }
}

TEST(FormatTest, TextRoundTrips) {
  const auto samples = TextSamples();
  const Sample& chunk = samples.at("text-chunk");
  const auto range = DecodeChunk(chunk.key, chunk.record, "");
  ASSERT_THAT(range, IsOk());
  EXPECT_TRUE(*range == MakeChunk(1, 7, 0, 3));
  EXPECT_EQ(std::ssize(chunk.record), 8 + 20);
  EXPECT_EQ(ChunkRecordBytes(*range), 8 + 20);
  const Sample& document = samples.at("text-document");
  EXPECT_EQ(DecodeDocument(document.key, document.record, "")->kind(), DocumentKind::kText);
  EXPECT_EQ(DecodeDocument(document.key, document.record, "")->sha256, SampleInfo().sha256);
  const Sample& refresh = samples.at("refresh");
  const auto again = DecodeIngest(refresh.key, refresh.record, "");
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->progress.replaces, OwnerId{17});
  EXPECT_EQ(again->progress.chunks, 6);
  EXPECT_EQ(again->progress.pattern, "");
  const Sample& prefix = samples.at("prefix-refresh");
  EXPECT_EQ(DecodeIngest(prefix.key, prefix.record, "")->progress.replaces, OwnerId{17});
  EXPECT_EQ(DecodeIngest(prefix.key, prefix.record, "")->progress.pattern, "(window 8)");
}

TEST(FormatTest, EveryFlippedBitIsDataLossNamingTheRecord) {
  for (const auto& [name, sample] : AllSamples()) {
    for (size_t bit = 0; bit < sample.record.size() * 8; ++bit) {
      std::string bad = sample.record;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
      EXPECT_THAT(sample.decode(sample.key, bad),
                  StatusIs(StatusCode::kDataLoss, name == "meta" ? "meta record" : "the record"))
          << name << " bit " << bit;
    }
  }
}

TEST(FormatTest, EveryTruncationAndExtensionIsDataLoss) {
  for (const auto& [name, sample] : AllSamples()) {
    for (size_t n = 0; n < sample.record.size(); ++n) {
      EXPECT_THAT(sample.decode(sample.key, sample.record.substr(0, n)),
                  StatusIs(StatusCode::kDataLoss, ""))
          << name << " of " << n;
    }
    EXPECT_THAT(sample.decode(sample.key, sample.record + '\0'),
                StatusIs(StatusCode::kDataLoss, ""));
  }
}

TEST(FormatTest, RecordUnderAnotherKeyOrOfAnotherTypeIsDataLoss) {
  const auto samples = Samples();
  for (const auto& [name, sample] : samples) {
    std::string other = sample.key;
    other.back() = static_cast<char>(other.back() ^ 1);
    EXPECT_THAT(sample.decode(other, sample.record), StatusIs(StatusCode::kDataLoss, "checksum"));
    for (const auto& [wrong, decoder] : samples) {
      if (wrong == name) continue;
      EXPECT_THAT(decoder.decode(sample.key, sample.record),
                  StatusIs(StatusCode::kDataLoss, "record type"))
          << name << " as " << wrong;
    }
  }
}

// The record with its payload or header changed and the checksum made right again: what a writer
// with a bug, or a newer one, would leave.
std::string Resealed(absl::string_view key, std::string record,
                     const std::function<void(std::string&)>& change) {
  change(record);
  const absl::string_view bytes = record;
  const uint32_t crc = Crc32c(bytes.substr(8), Crc32c(bytes.substr(0, 4), Crc32c(key)));
  for (int i = 0; i < 4; ++i) record[static_cast<size_t>(4 + i)] = static_cast<char>(crc >> 8 * i);
  return record;
}

TEST(FormatTest, SealedNonsenseIsDataLoss) {
  const auto samples = Samples(), prefixes = PrefixSamples();
  const auto expect_of = [&](const Sample& sample, const char* fragment, auto change) {
    EXPECT_THAT(sample.decode(sample.key, Resealed(sample.key, sample.record, change)),
                StatusIs(StatusCode::kDataLoss, fragment))
        << sample.key;
  };
  const auto expect = [&](const char* name, const char* fragment, auto change) {
    expect_of(samples.at(name), fragment, change);
  };
  for (const auto& [name, sample] : samples) {
    expect(name.c_str(),
           name == "chunk" || name == "document" ? "version 5, expected 1 to 4"
           : prefixes.contains(name)             ? "version 5, expected 1 to 3"
                                                 : "record version 5, expected 1",
           [](std::string& r) { r[0] = 5; });
    expect(name.c_str(), "record type", [](std::string& r) { r[3] = 1; });
    if (name == "resume" || name == "text") continue;
    expect(name.c_str(), "does not parse", [](std::string& r) { r.pop_back(); });
    expect(name.c_str(), "does not parse", [](std::string& r) { r += 'x'; });
    expect(name.c_str(), "does not parse", [](std::string& r) {
      if (r[1] != 6)
        r.resize(8);
      else
        r += 'x';
    });
  }
  expect("chunk", "does not parse", [](std::string& r) { r[8] = 65; });       // rows
  expect("chunk", "does not parse", [](std::string& r) { r[11] = '\xff'; });  // absurd rows
  expect("chunk", "does not parse", [](std::string& r) { r[12] = 0; });       // width
  expect("chunk", "does not parse", [](std::string& r) { r[23] = '\x80'; });  // text_begin < 0
  expect("chunk", "does not parse", [](std::string& r) { r[22] = 1; });  // text_begin > text_end
  for (const auto& [name, small] : SmallChunkSamples()) {
    expect_of(small, "does not parse", [](std::string& r) { r.pop_back(); });
    expect_of(small, "does not parse", [](std::string& r) { r += 'x'; });
    expect_of(small, "does not parse", [](std::string& r) { r.back() = '\x80'; });     // code -128
    expect_of(small, "does not parse", [](std::string& r) { r[r.size() - 81] = 6; });  // exponent
    expect_of(small, "does not parse", [](std::string& r) { r[12] = '\xff'; });        // width
    expect_of(small, "does not parse", [](std::string& r) { r[15] = r[11] = '\x7f'; });
  }
  const auto text = TextSamples();
  expect_of(text.at("text-chunk"), "does not parse", [](std::string& r) { r[8] = 65; });  // rows
  expect_of(text.at("text-chunk"), "does not parse", [](std::string& r) { r[8] = 0; });
  expect_of(text.at("text-chunk"), "does not parse", [](std::string& r) { r += 'x'; });
  expect_of(text.at("refresh"), "does not parse",
            [](std::string& r) { r[r.size() - 8] = 0; });  // replaces nothing
  expect_of(text.at("refresh"), "does not parse",
            [](std::string& r) { r[r.size() - 24] = 1; });  // a state without a pattern
  expect_of(text.at("refresh"), "does not parse", [](std::string& r) { r[0] = 2; });
  expect("landmarks", "does not parse", [](std::string& r) { r[8] = 0; });
  expect("landmarks", "does not parse", [](std::string& r) { r[15] = 127; });
  expect("document", "does not parse", [](std::string& r) { r[16] = 2; });       // flag
  expect("document", "does not parse", [](std::string& r) { r[24] = '\xff'; });  // bytes < 0
  expect("document", "does not parse", [](std::string& r) { r[0] = 2; });  // without its fields
  for (const char* name : {"document", "removed", "ingest"}) {
    const Sample& sample = prefixes.at(name);
    expect_of(sample, "does not parse",
              [](std::string& r) { r[0] = 1; });  // with those of a prefix
    expect_of(sample, "does not parse", [](std::string& r) { r.pop_back(); });
    expect_of(sample, "does not parse", [](std::string& r) { r.back() = '\x80'; });  // part < 0
    expect_of(sample, "does not parse",
              [&](std::string& r) { r[r[1] == 3 ? 48 : 33] = 1; });  // a chunk
  }
  expect_of(prefixes.at("state"), "does not parse", [](std::string& r) { r.resize(8); });
  expect_of(prefixes.at("state"), "does not parse",
            [](std::string& r) { r.resize(8 + kStatePartBytes + 1); });
  const Sample index = IndexSamples().at("index");
  expect_of(index, "does not parse", [](std::string& r) { r.resize(8 + 12); });
  expect_of(index, "does not parse",
            [](std::string& r) { r.resize(8 + 12 + kIndexPieceBytes + 1); });
  expect_of(index, "does not parse", [](std::string& r) { r[10] = r[8] = 0; });  // longer than all
  expect_of(index, "does not parse", [](std::string& r) { r[15] = '\x80'; });
  const Sample described = MetadataSamples().at("described-prefix");
  expect_of(described, "does not parse", [](std::string& r) {  // no metadata
    r.resize(r.size() - 13);
    r[r.size() - 4] = 0;
  });
  expect_of(described, "does not parse", [](std::string& r) {  // more than there may be
    r[r.size() - 13 - 3] = 0x10;
    r += std::string(4096, ' ');
  });
  expect_of(described, "does not parse", [](std::string& r) {  // a prefix that is kept as text
    r[r.size() - 13 - 4 - 16 - 10 - 4 - 1] = 1;
  });
  expect("text", "does not parse", [](std::string& r) { r.resize(8 + kTextPieceBytes + 1); });
  expect("tokens", "does not parse",
         [](std::string& r) { r.resize(8 + 4 * kTokenPieceCount + 4); });
}

TEST(FormatTest, NewerDatabaseNamesBothVersions) {
  const std::string key = MetaKey();
  const std::string record = EncodeMeta(key, {kDatabaseVersion + 1, 5});
  EXPECT_THAT(DecodeMeta(key, record), StatusIs(StatusCode::kFailedPrecondition, "version 3"));
  EXPECT_THAT(DecodeMeta(key, record), StatusIs(StatusCode::kFailedPrecondition, "up to 2"));
}

// Golden bytes: what they are of must be read, and written the same, for ever.
void ExpectGolden(const std::string& file_name, const std::map<std::string, Sample>& samples) {
  const std::string path = absl::StrCat(RECOLLECT_SOURCE_DIR, "/tests/store/golden/", file_name);
  std::map<std::string, std::pair<std::string, std::string>> golden;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string name, key, record;
    words >> name >> key >> record;
    golden[name] = {absl::HexStringToBytes(key), absl::HexStringToBytes(record)};
  }
  EXPECT_EQ(golden.size(), samples.size()) << path;
  for (const auto& [name, sample] : samples) {
    SCOPED_TRACE(absl::StrCat(name, " ", absl::BytesToHexString(sample.key), " ",
                              absl::BytesToHexString(sample.record)));
    EXPECT_TRUE(golden.contains(name));
    if (!golden.contains(name)) continue;
    EXPECT_THAT(sample.decode(golden[name].first, golden[name].second), IsOk());
    EXPECT_EQ(golden[name].first, sample.key);
    EXPECT_EQ(golden[name].second, sample.record);
  }
}

TEST(FormatTest, GoldenRecordsOfTheFirstRelease) { ExpectGolden("records_v1.txt", Samples()); }

TEST(FormatTest, GoldenRecordsOfPrefixes) { ExpectGolden("records_v2.txt", PrefixSamples()); }

TEST(FormatTest, GoldenRecordsOfCounts) { ExpectGolden("records_v3.txt", CountSamples()); }

TEST(FormatTest, GoldenRecordsOfIndexes) { ExpectGolden("records_v4.txt", IndexSamples()); }

TEST(FormatTest, GoldenRecordsOfMxInt8Chunks) {
  ExpectGolden("records_v5.txt", SmallChunkSamples());
}

TEST(FormatTest, GoldenRecordsOfText) { ExpectGolden("records_v6.txt", TextSamples()); }

TEST(FormatTest, GoldenRecordsOfMetadata) { ExpectGolden("records_v7.txt", MetadataSamples()); }

TEST(FormatTest, MetadataRoundTrips) {
  const std::pair<const char*, DocumentKind> kinds[] = {
      {"described", DocumentKind::kChunks},
      {"described-text", DocumentKind::kText},
      {"described-prefix", DocumentKind::kPrefix}};
  for (const auto& [name, kind] : kinds) {
    const Sample sample = MetadataSamples().at(name);
    const auto info = DecodeDocument(sample.key, sample.record, "");
    ASSERT_THAT(info, IsOk()) << name;
    EXPECT_EQ(info->kind(), kind);
    EXPECT_EQ(info->metadata, R"({"year":1851})");
    EXPECT_EQ(info->sha256, SampleInfo().sha256);
    // As releases without metadata have it.
    const std::string key = RemovedKey(info->owner);
    const auto removed = DecodeRemoved(key, EncodeRemoved(key, *info), "");
    ASSERT_THAT(removed, IsOk());
    EXPECT_EQ(removed->kind(), kind);
    EXPECT_EQ(removed->metadata, "");
  }
}

TEST(FormatTest, IndexPieceRoundTrip) {
  const Sample sample = IndexSamples().at("index");
  const auto piece = DecodeIndex(sample.key, sample.record, "");
  ASSERT_THAT(piece, IsOk());
  EXPECT_EQ(piece->total_bytes, kIndexPieceBytes + 8);
  EXPECT_EQ(piece->total_crc, 0x9f00c0deu);
  EXPECT_EQ(piece->bytes, "an index");
}

TEST(FormatTest, CountsRoundTrip) {
  const auto samples = CountSamples();
  const Sample& sample = samples.at("head");
  const auto head = DecodeHead(sample.key, sample.record, "");
  ASSERT_THAT(head, IsOk());
  EXPECT_EQ(head->catalog, *DecodeCatalog(CatalogKey(), samples.at("catalog").record, ""));
  EXPECT_EQ(head->catalog.names, 1ull << 33);
  EXPECT_EQ(head->manifest, 12u);
  EXPECT_EQ(head->manifest_bytes, 3412u);
  EXPECT_EQ(head->manifest_crc, 0x9f00c0deu);
}

TEST(FormatTest, OtherDocumentsHaveAnotherSum) {
  CatalogRecord a, b;
  for (const char* id : {"x", "y", "z"}) a.Add(DocumentKey(id));
  for (const char* id : {"z", "w", "x"}) b.Add(DocumentKey(id));
  EXPECT_EQ(a.documents, b.documents);
  EXPECT_NE(a, b);
  b.Subtract(DocumentKey("w"));
  b.Add(DocumentKey("y"));
  EXPECT_EQ(a, b);
}

}  // namespace
}  // namespace recollect::store
