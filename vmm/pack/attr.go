package pack

import (
	"archive/tar"
	"os"
	"slices"
	"strings"

	"hutch/fs"
)

// xattrRecord is what the PAX record of an extended attribute begins with.
const xattrRecord = "SCHILY.xattr."

// Extended attributes that an archive has:
//
//	user.…                          what programs keep with their files
//	security.capability             in layers, if the superuser unpacks it
//	trusted.overlay.{opaque, …}     in layers: what an overlay notes of what is gone;
//	                                others than the superuser have it as user.overlay
const (
	capability  = "security.capability"
	overlayRoot = "trusted.overlay."
	overlayUser = "user.overlay."
)

// overlayNotes are an overlay's that mean the same on every machine.
var overlayNotes = []string{"opaque", "whiteout", "redirect"}

// maxAttr is the length of the longest value of an attribute.
const maxAttr = 64 << 10

// carried returns the name that an attribute of the file called name has in an
// archive, "" if it stays.
func carried(attr, name string) string {
	note, isNote := strings.CutPrefix(attr, overlayRoot)
	if !isNote {
		note, isNote = strings.CutPrefix(attr, overlayUser)
	}
	switch {
	case isNote && inLayer(name) && slices.Contains(overlayNotes, note):
		return overlayRoot + note
	case isNote:
		return ""
	case attr == capability && inLayer(name):
		return attr
	case strings.HasPrefix(attr, "user.") && len(attr) > len("user."):
		return attr
	}
	return ""
}

// attributes returns the records of a file's attributes.
func attributes(f *os.File, name string) map[string]string {
	var records map[string]string
	room := maxManifest / 2 // of all records together a tar reader takes so much
	for _, attr := range listAttributes(f) {
		as := carried(attr, name)
		if as == "" {
			continue
		}
		value, ok := getAttribute(f, attr)
		if room -= len(value) + len(as) + 32; !ok || room < 0 {
			continue
		}
		if records == nil {
			records = make(map[string]string)
		}
		records[xattrRecord+as] = value
	}
	return records
}

// setAttributes gives an open file those that its member has.
func setAttributes(f *os.File, h *tar.Header) error {
	for key, value := range h.PAXRecords {
		attr, ok := strings.CutPrefix(key, xattrRecord)
		if !ok {
			continue
		}
		if carried(attr, h.Name) != attr || len(value) > maxAttr {
			return bad("%q has an attribute %q", fs.Shorten(h.Name), fs.Shorten(attr))
		}
		if attr == capability && os.Geteuid() != 0 {
			continue
		}
		if err := setAttribute(f, attr, value); err != nil {
			return err
		}
	}
	return nil
}
