package profiles

import (
	"net/url"
	"strings"
	"unicode/utf8"
)

// check says what of the storage is missing, or is no such thing.
func (s *Storage) check() error {
	at, b := key{"storage"}, s.Bucket
	switch s.Provider {
	case "", "local":
		if b.Quota != 0 {
			return at.with("quota").faultf("a quota goes with provider s3; the workspace's own limit is disk")
		}
		if b.Endpoint != "" {
			return at.with("s3").faultf("storage.s3 goes with provider s3: write provider = \"s3\"")
		}
		return nil
	case "s3":
	default:
		return at.with("provider").faultf("%.64q is no provider: they are local s3", s.Provider)
	}
	for _, k := range []struct{ name, value string }{
		{"endpoint", b.Endpoint}, {"bucket", b.Name}, {"access_key", b.AccessKey}, {"secret_key", b.SecretKey},
	} {
		if k.value == "" {
			return at.with("provider").faultf("provider s3 needs storage.s3.%s", k.name)
		}
	}
	at = at.with("s3")
	if strings.Contains(b.Endpoint, "@") { // a password, which no error shows
		return at.with("endpoint").faultf("the endpoint has an @: keys go to storage.s3.access_key and storage.s3.secret_key")
	}
	u, err := url.Parse(b.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return at.with("endpoint").faultf("%.64q is no URL like https://host:8333", b.Endpoint)
	}
	if len(b.Prefix) > 512 || !utf8.ValidString(b.Prefix) || strings.ContainsRune(b.Prefix, 0) {
		return at.with("prefix").faultf("the prefix is longer than 512 bytes or is no text")
	}
	for part := range strings.SplitSeq(b.Prefix, "/") {
		if part == "." || part == ".." {
			return at.with("prefix").faultf("%.64q has a part %q", b.Prefix, part)
		}
	}
	return nil
}
