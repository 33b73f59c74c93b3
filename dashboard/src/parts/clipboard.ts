/** Put a text on the clipboard; tells whether that worked. */
export async function putOnClipboard(text: string, near: HTMLElement): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Browsers lend it to pages over https only; the old way works over http, too.
    return copyAsSelection(text, near);
  }
}

function copyAsSelection(text: string, near: HTMLElement): boolean {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "sr-only";
  // Beside the button: outside of an open dialog nothing can be selected.
  near.after(area);
  area.select();
  const isDone = document.execCommand("copy");
  area.remove();
  near.focus();
  return isDone;
}
