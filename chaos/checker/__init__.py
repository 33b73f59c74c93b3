"""What must hold of a run: pure functions over what was recorded, which know no code of ours."""
