package replica

import "golang.org/x/sys/unix"

// same says whether w has what s has, which are no folders.
func (b *back) same(s, w *folder, name, path string, st, now *unix.Stat_t) bool {
	was := b.rec[path]
	if was.Sure && was.Stamp == stampOf(now) {
		return true
	}
	regular := stampOf(st).kind() == unix.S_IFREG
	if !sameDress(st, now) || regular && (st.Size != now.Size || st.Mtim != now.Mtim || was.Stamp.Nlink == 1 && now.Nlink > 1) {
		return false
	}
	same, err := equal(b.p.ctx, w.fd(), name, s.fd(), name, now)
	return same && err == nil
}

// sameDress says whether kind, mode and owner are the same, as far as they can
// be kept.
func sameDress(a, b *unix.Stat_t) bool {
	return a.Mode == b.Mode && (!superuser() || a.Uid == b.Uid && a.Gid == b.Gid)
}

// sameFolder is sameDress, and the same extended attributes.
func sameFolder(s, w *folder, st, now *unix.Stat_t) (bool, error) {
	if !sameDress(st, now) {
		return false, nil
	}
	return equalAttrs(attrsOf(s.fd()), attrsOf(w.fd()))
}

// dressBack gives the folder w the attributes of s, and no others.
func dressBack(s, w *folder, st *unix.Stat_t) error {
	to := attrsOf(w.fd())
	have, err := to.all()
	if err != nil {
		return err
	}
	for name := range have {
		if _, err := sized(func(buf []byte) (int, error) { return attrsOf(s.fd()).get(name, buf) }); err != nil {
			to.drop(name)
		}
	}
	return dressFolder(s, w, st)
}
