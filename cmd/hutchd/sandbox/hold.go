package sandbox

// held is what an exec, a session and a connection have in common: clients keep
// them, and with them the VM.
type held struct {
	vm      *Sandbox
	holders int    // clients that keep it; guarded by vm.mu
	unheld  func() // what is to be done when the last of them has let go; nil: nothing
}

// Hold keeps the object, if it is anonymous, and its VM, until done is called.
func (h *held) Hold() (done func()) {
	release := h.vm.Hold()
	h.vm.mu.Lock()
	h.holders++
	h.vm.mu.Unlock()
	return func() {
		h.vm.mu.Lock()
		h.holders--
		last := h.holders == 0
		h.vm.mu.Unlock()
		if last && h.unheld != nil {
			h.unheld()
		}
		release()
	}
}
